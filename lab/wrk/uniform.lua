-- Requests for the files /many/00000 to one below FILES, each as likely as any other. SEED makes
-- every run ask for the same files in the same order.
-- wrk -s uniform.lua URL -- FILES SEED

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

local files = 1

function init(args)
   files = tonumber(args[1])
   math.randomseed(tonumber(args[2]))
end

function request()
   return wrk.format("GET", string.format("/many/%05d", math.random(files) - 1))
end
