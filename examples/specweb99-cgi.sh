#!/bin/sh
# The CGI GET of SPECweb99: a page with the file of the query in it. See examples/specweb99.toml.
set -eu
case $QUERY_STRING in
*..* | *[!A-Za-z0-9_/.~-]*) file= ;;
*/file_set/dir*/class*_*) file=$DOCUMENT_ROOT$QUERY_STRING ;;
*) file= ;;
esac
if [ ! -f "$file" ]; then
    printf 'Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno file\n'
    exit 0
fi
head="<html>
<head><title>SPECweb99 Dynamic GET & POST Test</title></head>
<body>
<p>SERVER_SOFTWARE = $SERVER_SOFTWARE
<p>REMOTE_ADDR = $REMOTE_ADDR
<p>SCRIPT_NAME = $SCRIPT_NAME
<p>QUERY_STRING = $QUERY_STRING
<pre>
"
tail="
</pre>
</body></html>
"
size=$(wc -c <"$file")
printf 'Content-Type: text/html\r\nContent-Length: %d\r\n\r\n%s' \
    $((${#head} + size + ${#tail})) "$head"
cat "$file"
printf '%s' "$tail"
