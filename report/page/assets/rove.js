// One of many is in the tab order; arrow keys, Home and End go to the others.
function rove(items, moved) {
  const hold = (number) => items.forEach((item, i) => item.setAttribute("tabindex", i === number ? "0" : "-1"));
  items.forEach((item, number) => {
    item.addEventListener("focus", () => hold(number));
    item.addEventListener("keydown", (event) => {
      const last = items.length - 1;
      const next = { ArrowDown: number + 1, ArrowUp: number - 1, Home: 0, End: last }[event.key];
      if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const wanted = items[Math.min(last, Math.max(0, next))];
      wanted.focus();
      if (moved) moved(wanted);
    });
  });
  if (items.length) hold(0);
  return hold;
}

// The marks of a picture: one stop for Tab, and the picture's caption says which it is.
function watchPicture(figure) {
  const caption = figure.querySelector("figcaption");
  const marks = [...figure.querySelectorAll("svg a")];
  const say = (text) => { caption.textContent = text; };
  for (const mark of marks) {
    const name = mark.getAttribute("aria-label");
    mark.addEventListener("focus", () => say(name));
    mark.addEventListener("mouseenter", () => say(name));
    mark.addEventListener("mouseleave", () => say(caption.dataset.axis));
    mark.addEventListener("blur", () => say(caption.dataset.axis));
    // Left and right are next to each other, too.
    mark.addEventListener("keydown", (event) => {
      const key = { ArrowRight: "ArrowDown", ArrowLeft: "ArrowUp" }[event.key];
      if (!key) return;
      event.preventDefault();
      mark.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    });
  }
  rove(marks);
}
