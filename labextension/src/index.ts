import { badges } from './plugins/badges';
import { panel } from './plugins/panel';
import { pools } from './plugins/pools';

export default [pools, badges, panel];
