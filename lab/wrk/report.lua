-- Prints the totals of a run as one line of key=value pairs. Loaded by the other scripts.

function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format(
      "totals duration_us=%.0f requests=%.0f bytes=%.0f connect=%.0f read=%.0f write=%.0f " ..
      "status=%.0f timeout=%.0f\n",
      summary.duration, summary.requests, summary.bytes,
      e.connect, e.read, e.write, e.status, e.timeout))
end
