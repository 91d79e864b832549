// Imports a peer's library from bench/peers/node_modules, which only this folder can see.
export const library = (name) => import(name);
