-- The URL of the command line, DEPTH requests in each write.
-- wrk -s pipeline.lua URL -- DEPTH

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

local batch

function init(args)
   batch = wrk.format("GET"):rep(tonumber(args[1]))
end

function request()
   return batch
end
