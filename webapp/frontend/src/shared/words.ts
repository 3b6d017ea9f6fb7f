/** "read_wait" → "Read wait"; names that are written otherwise stay so. */
export function inWords(name: string): string {
  const short: Record<string, string> = { nfs: "NFS", lwfs: "LWFS", cpu: "CPU", rss: "RSS", io: "I/O", rpc: "RPC", ost: "OST", mdt: "MDT" };
  const words = name.replaceAll("_", " ").split(" ").map((word) => short[word] ?? word).join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
