import { useSignOut } from "@/shared/api/session";

export function SignOutButton({ name }: { name: string }) {
  const signOut = useSignOut();
  return (
    <>
      <span className="viewer" data-testid="viewer">{name}</span>
      <button type="button" className="button" disabled={signOut.isPending} onClick={() => signOut.mutate()} title={signOut.error?.message}>
        {signOut.error ? "Sign out again" : "Sign out"}
      </button>
    </>
  );
}
