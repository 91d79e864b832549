// Preloaded into every process of a world: changes one file of the code as it is loaded, as the variable MUTANT says.
import { register } from 'node:module';

register(new URL('./mutate_hooks.js', import.meta.url).href, { data: process.env['MUTANT'] });
