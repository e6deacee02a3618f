"""The style sheet and the script of the HTML report."""

import base64
import hashlib

#: Colours are those of Okabe and Ito, which colour-blind readers can distinguish, darker on white and lighter on black;
#: series differ by the pattern of their lines as well.
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1e21;--soft:#565d63;--faint:#dfe3e6;--raised:#f4f6f7;
--c0:#6d6d6d;--c1:#0072b2;--c2:#c04d00;--c3:#00795a}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e9ecee;--soft:#a9b1b8;--faint:#343a40;--raised:#1d2126;
--c0:#b0b0b0;--c1:#56b4e9;--c2:#f0a04b;--c3:#3ccf9f}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:76rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:0 0 .25rem}p{margin:.4rem 0}
.lead{font-size:1.15rem;border-left:.3rem solid var(--c1);padding:.2rem .8rem;background:var(--raised)}
.soft,figcaption{color:var(--soft);font-size:.875rem}
.scroll{overflow-x:auto;border:1px solid var(--faint);border-radius:.4rem}
table{border-collapse:collapse;width:100%;font-size:.84rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .3rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--faint)}
thead th,tbody th,.words,.broken{white-space:normal}thead th{vertical-align:bottom;background:var(--raised)}
tbody th{overflow-wrap:anywhere;min-width:7rem}.words{min-width:6.6rem}.broken{min-width:6.8rem}
tbody th,thead th:first-child{position:sticky;left:0}tbody th{background:var(--paper)}
th:first-child,td:first-child,.words{text-align:left}
tbody tr:last-child>*{border-bottom:0}
.pictures{display:flex;flex-wrap:wrap;gap:1.2rem}
figure{display:flex;flex-direction:column;flex:1 1 min(100%,21rem);margin:0;padding:.8rem;
border:1px solid var(--faint);border-radius:.4rem;min-width:0}figcaption{flex:1}
svg{display:block;width:100%;height:auto;max-width:34rem;margin:0 auto}
svg text{fill:var(--ink);font-size:11px}svg .tick{fill:var(--soft)}
path{fill:none}.grid{stroke:var(--faint);stroke-width:.7}
.diagonal,.threshold{stroke:var(--ink);stroke-width:1;stroke-dasharray:5 4}
.line{stroke-width:1.8;stroke-linejoin:round}.observed{fill:var(--faint)}
.c0{--colour:var(--c0)}.c1{--colour:var(--c1)}.c2{--colour:var(--c2)}.c3{--colour:var(--c3)}
.line,.mark{stroke:var(--colour)}.mark{stroke-width:1.4}.dot{fill:var(--colour);stroke:var(--paper);stroke-width:.8}
.band{fill:var(--colour);opacity:.2}.bars{fill:var(--colour);opacity:.65}
.line.c0{stroke-dasharray:1.5 2.5}.line.c2{stroke-dasharray:7 3}.line.c3{stroke-dasharray:7 2 1.5 2}
.cursor{stroke:var(--ink);stroke-width:1}.cursor[hidden]{display:none}
figure input{order:1}figure output{order:2}
input[type=range]{width:100%;margin:.3rem 0 0;accent-color:var(--c1)}
output{display:block;min-height:3em;font-size:.875rem}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.4rem 0 .8rem;font-size:.9rem}
.legend svg{display:inline-block;width:2.4rem;height:.8rem;margin:0 .4rem 0 0;vertical-align:middle}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.7rem;background:var(--raised);border-radius:.4rem;font-size:.875rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;font-size:.875rem}dt{font-weight:600}
dd{margin:0;overflow-wrap:anywhere}
:focus-visible{outline:3px solid var(--c1);outline-offset:2px}
@media (max-width:30rem){dl{grid-template-columns:1fr}dd{margin:0 0 .4rem}}
@media print{input,output{display:none}figure{break-inside:avoid}}
"""

#: A slider below each picture moves a line over it and says what is there, by keyboard, pointer and touch alike. At
#: first it says what is at the right end. Without scripts the pictures and their captions stay.
SCRIPT = """
const hint = () => document.querySelectorAll(".scrolls").forEach(one => {
  const table = one.nextElementSibling;
  one.hidden = table.scrollWidth <= table.clientWidth;
});
hint();
addEventListener("resize", hint);
for (const figure of document.querySelectorAll("figure[data-stops]")) {
  const stops = JSON.parse(figure.dataset.stops), svg = figure.querySelector("svg");
  const slider = figure.querySelector("input"), said = figure.querySelector("output");
  const cursor = svg.querySelector(".cursor");
  const show = i => {
    slider.value = i;
    slider.setAttribute("aria-valuetext", stops[i][1]);
    said.textContent = stops[i][1];
    cursor.setAttribute("transform", `translate(${stops[i][0]} 0)`);
    cursor.removeAttribute("hidden");
  };
  slider.max = stops.length - 1;
  slider.value = slider.max;
  said.textContent = stops[slider.max][1];
  slider.hidden = said.hidden = false;
  document.querySelector(".hint").hidden = false;
  slider.addEventListener("input", () => show(+slider.value));
  slider.addEventListener("focus", () => show(+slider.value));
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    let best = 0;
    stops.forEach((stop, i) => { if (Math.abs(stop[0] - x) < Math.abs(stops[best][0] - x)) best = i; });
    show(best);
  });
}
"""


def _hashed(text: str) -> str:
    """Write the hash by which a Content-Security-Policy names a style sheet or a script in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: What a browser may do with the page: apply this style sheet and run this script, and nothing else.
POLICY = (
    f"default-src 'none'; style-src {_hashed(STYLE)}; script-src {_hashed(SCRIPT)}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
