const SVG = 'http://www.w3.org/2000/svg';

/** Paths in a box of 16 by 16. */
export const ICONS = {
  add: 'M7 3h2v4h4v2H9v4H7V9H3V7h4z',
  remove: 'M3 7h10v2H3z',
  interrupt: 'M4 4h8v8H4z',
  restart:
    'M8 2.5a5.5 5.5 0 1 0 5.5 5.5h-1.8A3.7 3.7 0 1 1 8 4.3c1 0 1.9.4 2.6 1L8.6 7.3h5V2.4l-1.7 1.7A5.5 5.5 0 0 0 8 2.5z',
  start: 'M5 3l8 5-8 5z',
  stop: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.6a4.4 4.4 0 1 1 0 8.8 4.4 4.4 0 0 1 0-8.8zM6 6h4v4H6z',
  dismiss: 'M4.4 3.3L8 6.9l3.6-3.6 1.1 1.1L9.1 8l3.6 3.6-1.1 1.1L8 9.1l-3.6 3.6-1.1-1.1L6.9 8 3.3 4.4z'
} as const;

export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', 'jp-Wool-icon');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(path(ICONS[name]));
  return svg;
}

export function path(data: string): SVGPathElement {
  const shape = document.createElementNS(SVG, 'path');
  shape.setAttribute('d', data);
  return shape;
}
