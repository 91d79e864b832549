// The mark of Punctual: a clock's face, ticked. Also public/favicon.svg.

export function Logo() {
  return (
    <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
      <g fill="none" stroke="currentColor" strokeWidth="3" strokeLinecap="round" strokeLinejoin="round">
        <path d="M28.6 13.2A13 13 0 1 1 21.5 4.2" />
        <path d="M10 15.5l5.5 5.5L28 6.5" />
      </g>
    </svg>
  );
}
