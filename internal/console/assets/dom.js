// Builds elements. Everything that comes from the cluster becomes a text node or the value of an attribute, never markup:
// the page's Content-Security-Policy (trusted types) also makes the browser refuse anything else.

const svgSpace = 'http://www.w3.org/2000/svg';

// el makes an element. Properties that start with "on" are listeners, null and undefined are left out.
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// svg makes an element of SVG.
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(svgSpace, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ''));
  return element;
}

// set changes an attribute if it differs, so that a refresh that changes nothing does nothing.
export function set(element, name, value) {
  if (value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

// write changes a text if it differs.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// show hides or shows an element.
export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

// clear removes the children of an element, also of one that sync filled.
export function clear(element) {
  element.replaceChildren();
  element.known?.clear();
}

export const byID = (id) => document.getElementById(id);

// sync makes the children of parent those of items, in their order. An element stays the same as long as its key does, and
// is moved only if its place changed: so the focus and the scroll position survive a refresh.
export function sync(parent, items, keyOf, create, update) {
  const known = parent.known ?? (parent.known = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (!child) {
      child = create(item);
      known.set(key, child);
    }
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
    update?.(child, item);
  }
}
