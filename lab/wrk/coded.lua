-- The URL of the command line, by a client that accepts Brotli.
-- wrk -s coded.lua URL

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

wrk.headers["Accept-Encoding"] = "br"
