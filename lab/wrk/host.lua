-- The URL of the command line, of one of the hosts that a site has.
-- wrk -s host.lua URL

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

wrk.headers["Host"] = "host7.example.org"
