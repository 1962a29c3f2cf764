import { isObject } from './reading';

/** What the line of a background job carries beside its text. It is saved with the notebook, other than the display's id. */
export interface IJobMark {
  readonly job: string;
  readonly ended: boolean;
  /** The command that shows again what the job has shown; empty if that is nothing. */
  readonly again: string;
}

/** Null if an output is no job's line. */
export function jobMark(metadata: unknown): IJobMark | null {
  const wool = isObject(metadata) ? metadata.wool : null;
  if (!isObject(wool) || typeof wool.job !== 'string') {
    return null;
  }
  // A kernel with an older version of the package says less.
  return {
    job: wool.job,
    ended: wool.ended !== false,
    again: typeof wool.again === 'string' ? wool.again : ''
  };
}

/** The line, on a page that may have missed what the job has shown. */
export function withHint<T extends Readonly<Record<string, unknown>>>(data: T, mark: IJobMark): T {
  if (mark.again === '') {
    return data;
  }
  const hint = `the page was loaded anew: \`${mark.again}\` shows what may be missing here`;
  const hinted: Record<string, unknown> = { ...data };
  const { 'text/plain': plain, 'text/html': html } = data;
  if (typeof plain === 'string') {
    hinted['text/plain'] = `${plain}\nwool: ${hint}`;
  }
  if (typeof html === 'string') {
    hinted['text/html'] = html.replace(/<\/div>$/, `<br>${hint}</div>`);
  }
  return hinted as T;
}
