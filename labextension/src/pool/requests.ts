import { record, text } from './reading';

/** What a display may ask of the kernel. */
export type Request =
  | { readonly do: 'hello' | 'seen' | 'start' | 'stop' }
  | { readonly do: 'interrupt' | 'restart'; readonly worker: string }
  | { readonly do: 'scale'; readonly workers: number };

export type Ask = (request: Request) => void;

/** A display says so as often as this while somebody can see it: then figures of CPU and memory are taken. */
export const SEEN_EVERY_MS = 10_000;

const answer = record({ did: text, error: text });

/** What to tell of an answer: what went wrong, in words; "": nothing did; null: nobody had asked for anything. */
export function troubleIn(message: unknown): string | null {
  try {
    const { did, error } = answer(message, 'answer');
    return error === '' && (did === 'hello' || did === 'seen') ? null : error;
  } catch {
    return null; // not an answer
  }
}
