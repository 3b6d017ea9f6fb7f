import { useState, type FormEvent } from "react";
import { useSignIn } from "@/shared/api/session";
import { ErrorNote } from "@/shared/ui/states";

/** Name and password; stands in the place of whatever page was asked for, which shows once they are right. */
export function SignInPage() {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const signIn = useSignIn();

  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate({ name, password }, { onError: () => setPassword("") });
  };
  return (
    <>
      <title>Sign in · Bellrock</title>
      <form className="panel sign-in" onSubmit={submit} data-testid="sign-in">
        <h1>Sign in</h1>
        <label>
          User name
          <input name="username" className="field" autoComplete="username" autoCapitalize="none" spellCheck={false} required maxLength={200} autoFocus
            value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <label>
          Password
          <input name="password" type="password" className="field" autoComplete="current-password" required maxLength={1024}
            value={password} onChange={(event) => setPassword(event.target.value)} />
        </label>
        {signIn.error && <ErrorNote error={signIn.error} stale={false} />}
        <button type="submit" className="button button-main" disabled={signIn.isPending}>{signIn.isPending ? "Signing in …" : "Sign in"}</button>
      </form>
    </>
  );
}
