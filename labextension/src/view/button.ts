import { element, setAttribute } from './element';
import { icon, IconName } from './icons';

interface IButtonOptions {
  readonly icon: IconName;
  /** What it does, in words: of the tooltip and for screen readers. */
  readonly label: string;
  /** On the button; without it there is the icon alone. */
  readonly text?: string;
  readonly press: () => void;
}

/** While it can't be used it keeps the focus that it has (`disabled` would lose it), and does nothing. */
export class Button {
  readonly node: HTMLButtonElement;

  constructor(options: IButtonOptions) {
    this.node = element('button', 'jp-Wool-button', { type: 'button' }, icon(options.icon));
    if (options.text !== undefined) {
      this.node.append(element('span', 'jp-Wool-buttonText', {}, options.text));
    }
    this.name(options.label);
    this.node.addEventListener('click', () => {
      if (this._enabled) {
        options.press();
      }
    });
  }

  name(label: string): void {
    setAttribute(this.node, 'aria-label', label);
    setAttribute(this.node, 'title', label);
  }

  enable(enabled: boolean): void {
    this._enabled = enabled;
    setAttribute(this.node, 'aria-disabled', enabled ? null : 'true');
  }

  private _enabled = true;
}
