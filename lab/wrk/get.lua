-- The URL of the command line, again and again.
-- wrk -s get.lua URL

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")
