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

// The list of versions is put in when the page has fetched it: what its button is called contains what it shows.
new MutationObserver(() => {
  const button = document.querySelector(".md-version__current");
  const name = button && `Version ${button.textContent.trim()}, select another`;
  if (button && button.getAttribute("aria-label") !== name) button.setAttribute("aria-label", name);
}).observe(document.querySelector(".md-header"), { childList: true, subtree: true });
