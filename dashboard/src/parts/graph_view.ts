// Pan and zoom of a drawing: by pointer, two fingers, wheel with Ctrl, and by calls. The drawing is moved directly, without
// React: a thousand steps would be compared anew for every pixel.
import { type RefObject, useCallback, useEffect, useMemo, useRef } from 'react';

export interface Size {
  width: number;
  height: number;
}

export interface Box extends Size {
  x: number;
  y: number;
}

export interface View {
  /** Moves so that all of it can be seen. */
  fit: () => void;
  zoom: (factor: number) => void;
  /** Moves just so far that the box can be seen. */
  reveal: (box: Box) => void;
  /** Puts the box into the middle, large enough to be read. */
  centre: (box: Box) => void;
  /** The reader has moved it since. */
  isMoved: () => boolean;
}

const margin = 24;
const least = 0.02;
const most = 2;
const readable = 0.85;

export function useView(
  svg: RefObject<SVGSVGElement | null>,
  stage: RefObject<SVGGElement | null>,
  drawing: Size,
): View {
  const state = useRef({ x: margin, y: margin, scale: 1 });
  const moved = useRef(false);
  const size = useRef(drawing);
  useEffect(() => {
    size.current = drawing;
  });

  const move = useCallback(
    (x: number, y: number, scale: number) => {
      state.current = { x, y, scale };
      stage.current?.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
    },
    [stage],
  );

  const zoomAt = useCallback(
    (factor: number, px: number, py: number) => {
      const { x, y, scale } = state.current;
      const next = Math.min(most, Math.max(least, scale * factor));
      move(px - ((px - x) * next) / scale, py - ((py - y) * next) / scale, next);
    },
    [move],
  );

  useEffect(() => {
    if (svg.current === null) return undefined;
    const byHand = (): void => {
      moved.current = true;
    };
    return listen(svg.current, { state, move, zoomAt, byHand });
  }, [svg, move, zoomAt]);

  return useMemo(() => {
    const room = (): Size => svg.current?.getBoundingClientRect() ?? { width: 0, height: 0 };
    const place = (box: Box, scale: number): void => {
      moved.current = false;
      const { width, height } = room();
      move(width / 2 - (box.x + box.width / 2) * scale, height / 2 - (box.y + box.height / 2) * scale, scale);
    };
    return {
      fit: () => {
        const { width, height } = room();
        const whole = size.current;
        const scale = Math.min((width - 2 * margin) / whole.width, (height - 2 * margin) / whole.height, 1);
        place({ x: 0, y: 0, ...whole }, Math.max(least, scale));
      },
      zoom: (factor) => {
        const { width, height } = room();
        moved.current = true;
        zoomAt(factor, width / 2, height / 2);
      },
      reveal: (box) => {
        const { width, height } = room();
        const { x, y, scale } = state.current;
        const into = (at: number, extent: number, seen: number): number => {
          if (at < margin) return margin - at;
          return at + extent > seen - margin ? seen - margin - at - extent : 0;
        };
        move(
          x + into(x + box.x * scale, box.width * scale, width),
          y + into(y + box.y * scale, box.height * scale, height),
          scale,
        );
      },
      centre: (box) => {
        place(box, readable);
        const { width, height } = room();
        const { x, y } = state.current;
        move(
          inside(x, size.current.width * readable, width),
          inside(y, size.current.height * readable, height),
          readable,
        );
      },
      isMoved: () => moved.current,
    };
  }, [svg, move, zoomAt]);
}

/** Where the drawing begins so that no room is left empty; what is smaller than the room stands in its middle. */
function inside(start: number, extent: number, room: number): number {
  if (extent + 2 * margin <= room) return (room - extent) / 2;
  return Math.min(margin, Math.max(start, room - margin - extent));
}

type Pointers = Map<number, { x: number; y: number }>;

/** A press that goes further than this is a drag, and no click. */
const slack = 4;

interface Moves {
  state: RefObject<{ x: number; y: number; scale: number }>;
  move: (x: number, y: number, scale: number) => void;
  zoomAt: (factor: number, px: number, py: number) => void;
  /** Told of each move that a person makes. */
  byHand: () => void;
}

function listen(element: SVGSVGElement, { state, move, zoomAt, byHand }: Moves): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  const pointers: Pointers = new Map();
  let gone = 0;
  const at = (event: MouseEvent): { x: number; y: number } => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const up = (event: PointerEvent): void => void pointers.delete(event.pointerId);
  element.addEventListener(
    'pointerdown',
    (event) => {
      pointers.set(event.pointerId, at(event));
      gone = 0;
    },
    { signal },
  );
  element.addEventListener(
    'pointermove',
    (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      byHand();
      const now = at(event);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other === undefined) {
        const { x, y, scale } = state.current;
        gone += Math.hypot(now.x - before.x, now.y - before.y);
        if (gone > slack) element.setPointerCapture(event.pointerId);
        move(x + now.x - before.x, y + now.y - before.y, scale);
      } else {
        const factor =
          Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y);
        if (Number.isFinite(factor) && factor > 0) zoomAt(factor, (now.x + other.x) / 2, (now.y + other.y) / 2);
      }
      pointers.set(event.pointerId, now);
    },
    { signal },
  );
  for (const end of ['pointerup', 'pointercancel', 'pointerleave'] as const)
    element.addEventListener(end, up, { signal });
  // A plain wheel scrolls the page: the drawing must not be a trap.
  element.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      byHand();
      const { x, y } = at(event);
      zoomAt(Math.exp(-event.deltaY / 300), x, y);
    },
    { signal, passive: false },
  );
  return () => stop.abort();
}
