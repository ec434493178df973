"use strict";
// Long names in the cells of tables may go on in the next line where a part of them ends, and nowhere else.
for (const code of document.querySelectorAll(".content td code")) {
  const parts = code.textContent.split(/(?<=[_.,/=:(])/);
  code.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
}
