// Everything that has a name or an id leads to its page, wherever it is shown.
import { to } from '../place.ts';

interface Shown {
  id: string;
  /** Only the end of the id, which differs; the whole is in the title. */
  short?: boolean;
}

export const JobLink = ({ id, short }: Shown) => <IdLink href={to('jobs', id)} id={id} short={short} />;
export const RunLink = ({ id, short }: Shown) => <IdLink href={to('runs', id)} id={id} short={short} />;
export const WorkflowLink = ({ id, short }: Shown) => <IdLink href={to('workflows', id)} id={id} short={short} />;

export const QueueLink = ({ name }: { name: string }) => <a href={to('queues', name)}>{name}</a>;
export const WorkerLink = ({ id }: { id: string }) => <a href={to('workers', id)}>{id}</a>;

function IdLink({ href, id, short = false }: { href: string; id: string; short: boolean | undefined }) {
  return (
    <a href={href} title={short ? id : undefined} className="id">
      {short ? `…${id.slice(-8)}` : id}
    </a>
  );
}
