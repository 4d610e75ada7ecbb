-- Requests for a SPECweb99 file set of DIRECTORIES directories, drawn as its static ones are:
-- class, file within the class and directory are independent; directories follow Zipf's law
-- with exponent 1. SEED makes every run ask for the same files in the same order.
-- wrk -s mix.lua URL -- DIRECTORIES DRAWS SEED

dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "report.lua")

-- Cumulative shares of classes 0 to 3 and of files 0 to 8.
local CLASSES = { 0.35, 0.85, 0.99, 1.0 }
local FILES = { 0.039, 0.098, 0.186, 0.363, 0.716, 0.834, 0.905, 0.955, 1.0 }

local function zipf(n)
   local sums, sum = {}, 0
   for i = 1, n do
      sum = sum + 1 / i
      sums[i] = sum
   end
   for i = 1, n do
      sums[i] = sums[i] / sum
   end
   return sums
end

-- Index, from 0, of the first cumulative share above a uniform draw.
local function draw(shares)
   local u = math.random()
   for i = 1, #shares do
      if u < shares[i] then
         return i - 1
      end
   end
   return #shares - 1
end

local drawn = {}
local at = 0

-- Everything is drawn before the run, so that the generator pays only for a look-up.
function init(args)
   local directories = zipf(tonumber(args[1]))
   math.randomseed(tonumber(args[3]))
   for i = 1, tonumber(args[2]) do
      local path = string.format(
         "/file_set/dir%05d/class%d_%d", draw(directories), draw(CLASSES), draw(FILES))
      drawn[i] = wrk.format("GET", path)
   end
end

function request()
   at = at % #drawn + 1
   return drawn[at]
end
