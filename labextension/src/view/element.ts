type Child = Node | string;

/** `class` is a space-separated list; attributes with a `null` value are left out. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  attributes: Record<string, string | null> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(node, name, value);
  }
  node.append(...children);
  return node;
}

/** These three touch the document only for a change: what did not change is not laid out, drawn or announced again. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

export function setAttribute(node: Element, name: string, value: string | null): void {
  if (value === null) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

export function setShown(node: HTMLElement, shown: boolean): void {
  if (node.hidden === shown) {
    node.hidden = !shown;
  }
}
