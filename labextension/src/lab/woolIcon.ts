import { LabIcon } from '@jupyterlab/ui-components';

const LINE = 'fill: none; stroke: var(--jp-inverse-layout-color3); stroke-width: 1.7; stroke-linecap: round';

/** A ball of wool. */
export const woolIcon = new LabIcon({
  name: 'wool-jupyter:wool',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g style="${LINE}">
    <circle cx="11" cy="11" r="8.2" />
    <path d="M4.4 6.3c4.4 2 8.4 6.2 9.7 12.2M9.2 3c4 2.2 8 6.7 9.2 11.7M3 10.4c2.8 1.8 5 4.5 6 8.4" />
    <path d="M13 19.2c2.2 2.3 5.3 2.6 8.2 1.6" />
  </g>
</svg>`
});
