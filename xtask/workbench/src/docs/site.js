"use strict";
// Long names in table cells may wrap only after one of their parts.
const names = [...document.querySelectorAll(".content td code, .content th")].filter(({ children }) => children.length === 0);
for (const name of names) {
  const parts = name.textContent.split(/(?<=[_.,/=:(])/);
  name.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
}
