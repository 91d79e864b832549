// Calls that leave the house, as worker and server make them alike: which addresses may be called, how a call is sent and
// its answer read, how it is signed. For Node only, hence apart from the contract's schemas.
export * from './addresses.ts';
export * from './call.ts';
export * from './signature.ts';
