// Which addresses may be called: every public one, and of the others those an operator has allowed. Without
// this a job or a webhook could reach databases, metadata services and dashboards that only trust their own network. Used by
// the http executor of the worker and the deliveries of the server.
import { BlockList, isIP, isIPv4 } from 'node:net';

/** Ranges that are not the public internet (IANA special-purpose registries), and those that embed IPv4 addresses. */
const refusedRanges = [
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24',
  '192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4',
  '::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10',
  'fec0::/10 ff00::/8',
].flatMap((line) => line.split(' '));

export interface AddressRules {
  /** Whether the operator has allowed this host by name, whatever it resolves to. */
  allowsHost(host: string): boolean;
  allowsAddress(address: string): boolean;
}

/** `allow` lists host names, addresses and CIDRs. Throws when an entry is none of these. */
export function addressRules(allow: readonly string[]): AddressRules {
  const refused = listOf(refusedRanges);
  const allowed = listOf(allow.filter(isAddressOrRange));
  const hosts = new Set(allow.filter((entry) => !isAddressOrRange(entry)).map(checkedHost));
  return {
    allowsHost: (host) => hosts.has(host.toLowerCase().replace(/\.$/, '')),
    allowsAddress: (address) => {
      const family = isIPv4(address) ? 'ipv4' : 'ipv6';
      // A zone says through which interface: public addresses have none, and lists of addresses do not understand it.
      if (isIP(address) === 0 || address.includes('%')) return false;
      return allowed.check(address, family) || !refused.check(address, family);
    },
  };
}

function isAddressOrRange(entry: string): boolean {
  return entry.includes('/') || isIP(entry) !== 0;
}

function listOf(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    const most = family === 'ipv4' ? 32 : 128;
    const prefix = bits === undefined ? most : Number(bits);
    if (isIP(address) === 0 || !/^\d{0,3}$/.test(bits ?? '') || bits === '' || prefix > most) {
      throw new TypeError(
        `${JSON.stringify(entry)} in PUNCTUAL_HTTP_ALLOW is not a CIDR; write it like 10.1.0.0/16 or fd00::/8.`,
      );
    }
    list.addSubnet(address, prefix, family);
  }
  return list;
}

function checkedHost(entry: string): string {
  const host = entry.toLowerCase().replace(/\.$/, '');
  if (/^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/.test(host)) return host;
  throw new TypeError(
    `${JSON.stringify(entry)} in PUNCTUAL_HTTP_ALLOW is not a host name; write it without protocol and port, like hooks.example.com.`,
  );
}
