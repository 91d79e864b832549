// Medians and percentiles.
export function percentile(values, share) {
  if (values.length === 0) return null;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return null;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** p50, p99 and the ends, in the unit of the values. */
export function spread(values) {
  const at = (share) => round(percentile(values, share), 2);
  return { n: values.length, min: at(0), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}

export function round(value, digits = 0) {
  return value === null ? null : Number(value.toFixed(digits));
}
