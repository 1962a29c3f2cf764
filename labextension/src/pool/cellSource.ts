/** One change of a text: what stands from `start` to `end` becomes `text`. */
export interface IEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The magic, or the comment that does what it does. */
const WOOL = /^(%%wool(\s.*)?|\s*#\s*wool(\s*:.*|\s+--?\w.*)?\s*)$/;
const LOADS_WOOL = /^\s*(%load_ext|import|from)\s+wool_jupyter\b/m;
const STANDS_ABOVE = /^%%(time|capture)(\s.*)?$/;

interface ILine {
  readonly start: number;
  readonly text: string;
}

export function runsOnWool(source: string): boolean {
  return woolLine(source) !== null;
}

/** Whether a kernel that has run it may know wool. */
export function mentionsWool(source: string): boolean {
  return runsOnWool(source) || LOADS_WOOL.test(source);
}

/** Puts the line `%%wool` on top, below `%%time` and `%%capture`; null: it is there. */
export function toWool(source: string): IEdit | null {
  if (runsOnWool(source)) {
    return null;
  }
  const below = linesAbove(source).at(-1);
  if (below === undefined) {
    return { start: 0, end: 0, text: '%%wool\n' };
  }
  const end = below.start + below.text.length;
  return { start: end, end, text: '\n%%wool' };
}

/** Takes the line away, with its options; null: there is none. */
export function fromWool(source: string): IEdit | null {
  const line = woolLine(source);
  return line && { start: line.start, end: line.start + line.text.length + 1, text: '' };
}

function woolLine(source: string): ILine | null {
  const above = linesAbove(source).at(-1);
  const start = above === undefined ? leadingBlank(source) : above.start + above.text.length + 1;
  const text = lineAt(source, start);
  return WOOL.test(text) ? { start, text } : null;
}

function linesAbove(source: string): ILine[] {
  const lines: ILine[] = [];
  let start = leadingBlank(source);
  for (let text = lineAt(source, start); STANDS_ABOVE.test(text); text = lineAt(source, start)) {
    lines.push({ start, text });
    start += text.length + 1;
  }
  return lines;
}

function lineAt(source: string, start: number): string {
  const end = source.indexOf('\n', start);
  return source.slice(start, end < 0 ? undefined : end);
}

/** Empty lines above a cell magic are nothing to IPython. */
function leadingBlank(source: string): number {
  return /^(\s*\n)?/.exec(source)?.[0].length ?? 0;
}
