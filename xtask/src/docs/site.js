"use strict";
// Long names in the cells of tables may go on in the next line where a part of them ends, and nowhere else.
const names = [...document.querySelectorAll(".content td code, .content th")].filter(({ children }) => children.length === 0);
for (const name of names) {
  const parts = name.textContent.split(/(?<=[_.,/=:(])/);
  name.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
}
