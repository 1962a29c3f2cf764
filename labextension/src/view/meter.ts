import { element, setAttribute, setText } from './element';
import { path } from './icons';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 1000; // of the drawing: whole numbers are fine enough, and quick to write
const HEIGHT = 100;

export interface IReading {
  /** Of the whole bar, 0 to 1; null: not known. */
  readonly share: number | null;
  /** Of the mark on the bar, 0 to 1. */
  readonly mark: number | null;
  readonly text: string;
  /** Points of the sparkline: both coordinates 0 to 1, time from left to right. */
  readonly line: readonly (readonly [number, number])[];
}

/** One figure as text, as a bar, and as a line of its last minute. */
export class Meter {
  readonly node: HTMLElement;

  constructor(name: string, title: string) {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('class', 'jp-Wool-spark');
    svg.setAttribute('aria-hidden', 'true');
    svg.append(this._area, this._stroke);
    this._area.setAttribute('class', 'jp-Wool-sparkArea');
    this._stroke.setAttribute('class', 'jp-Wool-sparkLine');
    this.node = element(
      'div',
      'jp-Wool-meter',
      { role: 'meter', 'aria-label': name, 'aria-valuemin': '0', 'aria-valuemax': '100', title },
      element('span', 'jp-Wool-meterName', {}, name),
      this._value,
      svg,
      element('span', 'jp-Wool-bar', {}, this._fill, this._mark)
    );
  }

  show({ share, mark, text, line }: IReading): void {
    setText(this._value, text);
    setAttribute(this.node, 'aria-valuenow', String(Math.round(clamp(share ?? 0) * 100)));
    setAttribute(this.node, 'aria-valuetext', text);
    setAttribute(this._fill, 'style', `transform: scaleX(${clamp(share ?? 0).toFixed(3)})`);
    setAttribute(
      this._mark,
      'style',
      mark === null ? 'display: none' : `left: ${(clamp(mark) * 100).toFixed(1)}%`
    );
    const points = line.map(([x, y]) => `${Math.round(x * WIDTH)} ${Math.round((1 - clamp(y)) * HEIGHT)}`);
    setAttribute(this._stroke, 'd', points.length > 1 ? `M${points.join('L')}` : '');
    setAttribute(this._area, 'd', points.length > 1 ? areaUnder(points) : '');
  }

  describe(title: string): void {
    setAttribute(this.node, 'title', title);
  }

  private readonly _value = element('span', 'jp-Wool-meterValue');
  private readonly _fill = element('span', 'jp-Wool-barFill');
  private readonly _mark = element('span', 'jp-Wool-barMark');
  private readonly _area = path('');
  private readonly _stroke = path('');
}

function areaUnder(points: readonly string[]): string {
  const x = (point: string | undefined) => point?.split(' ')[0] ?? '0';
  return `M${x(points[0])} ${HEIGHT}L${points.join('L')}L${x(points.at(-1))} ${HEIGHT}Z`;
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
