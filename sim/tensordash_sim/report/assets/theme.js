"use strict";
// Light, dark, or the system's setting; others redraw on the event "themechange".
(() => {
  const button = document.getElementById("theme");
  const choices = ["system", "light", "dark"];
  // A page that is opened from a file may have no storage: the choice then lasts as long as the page.
  const stored = () => { try { return localStorage.getItem("tensordash-theme"); } catch { return null; } };
  const store = (choice) => { try { localStorage.setItem("tensordash-theme", choice); } catch { /* see above */ } };

  const apply = (choice) => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
    button.dataset.choice = choice;
    document.dispatchEvent(new Event("themechange"));
  };

  apply(choices.includes(stored()) ? stored() : "system");
  button.addEventListener("click", () => {
    const next = choices[(choices.indexOf(button.dataset.choice) + 1) % choices.length];
    store(next);
    apply(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new Event("themechange"));
  });
})();

/** A colour of the style sheet, as it is now. */
function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
