// Says below the page how long the browser waited for what it is made of.
addEventListener("load", () => {
  const place = document.getElementById("timing");
  const parts = performance.getEntriesByType("resource");
  const page = performance.getEntriesByType("navigation")[0];
  if (!place || !page) return;
  const waits = [page, ...parts].map(part => part.responseStart - part.requestStart);
  const known = waits.filter(wait => wait > 0);
  if (known.length === 0) return;
  const longest = Math.max(...known).toFixed(1);
  place.textContent = `Your browser asked for ${known.length} files, and waited for the first byte ` +
    `of none longer than ${longest} ms.`;
});
