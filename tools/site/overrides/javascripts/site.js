// What the theme leaves to be named: the dialog of the search, lists of pages, buttons of code, and code that scrolls.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
document.querySelectorAll(".md-nav .md-nav").forEach((nav, place) => {
  const label = document.getElementById(nav.getAttribute("aria-labelledby") ?? "");
  if (label !== null) {
    nav.removeAttribute("aria-labelledby");
    nav.setAttribute("aria-label", `${label.textContent.trim()}, list ${place + 1}`);
  }
});
function nameCode() {
  document.querySelectorAll(".md-code__nav").forEach((nav, place) => {
    nav.setAttribute("aria-label", `Buttons of code ${place + 1}`);
  });
  document.querySelectorAll("pre > code").forEach((code) => {
    if (code.scrollWidth > code.clientWidth) {
      code.tabIndex = 0;
    }
  });
}
// The theme adds its buttons later, and what scrolls depends on the width of the window.
new MutationObserver(nameCode).observe(document.body, {childList: true, subtree: true});
addEventListener("load", nameCode);
addEventListener("resize", nameCode);
