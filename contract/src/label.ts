// The alphabet of names that stand in URLs, metrics and lanes, hence narrow. Shared by the schema and by callers.
export const labelPattern = '^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$';
