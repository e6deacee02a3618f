// Lines are read: a line that begins with { is a map, any other holds scores, and is answered.

import { createInterface } from "node:readline";
import { loadMap } from "./calibration_map.mjs";

let calibrate;
for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith("{")) calibrate = loadMap(line);
  else console.log(String(calibrate(...line.split(" ").map(Number))));
}
