// Formulas: trees of MathML from the server, built element by element.

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(["math", "mrow", "mi", "mn", "mo", "msub", "msup", "msubsup", "mfrac", "msqrt", "mtext"]);
const ATTRIBUTES = new Set(["class", "mathvariant", "stretchy", "lspace", "rspace"]);

export function math(formula) {
  const element = built(formula.tree);
  element.setAttribute("displaystyle", "true");
  element.setAttribute("alttext", formula.text);
  return element;
}

function built(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [name, attributes, ...children] = tree;
  const element = document.createElementNS(NAMESPACE, ELEMENTS.has(name) ? name : "mrow");
  for (const [key, value] of Object.entries(attributes))
    if (ATTRIBUTES.has(key)) element.setAttribute(key, value);
  element.append(...children.map(built));
  return element;
}
