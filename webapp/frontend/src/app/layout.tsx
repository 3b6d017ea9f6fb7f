import { useEffect, useRef } from "react";
import { NavLink, Outlet, ScrollRestoration, useLocation, useNavigation } from "react-router";
import { mustSignIn, useSession } from "@/shared/api/session";
import { useStatus } from "@/shared/api/status";
import { Mark } from "@/shared/ui/mark";
import { ErrorNote, Loading } from "@/shared/ui/states";
import { SignInPage } from "./sign-in-page";
import { SignOutButton } from "./sign-out-button";
import { ThemeButton } from "./theme-button";

const STATUS_INTERVAL_MS = 10_000;

/** The frame of every page: mark, navigation, theme, version, who looks, and for administrators a sign when an agent lost records. Who has to
 * sign in does so in the place of the page, whose address stays. */
export function Layout() {
  const { data: viewer, error } = useSession();
  const signIn = mustSignIn(error);
  const isAdmin = viewer?.role === "admin" && !signIn;
  const { data: status } = useStatus(STATUS_INTERVAL_MS, isAdmin);
  const losses = status?.losses.length ?? 0;
  const navigation = useNavigation();
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  // After a change of page the keyboard goes on from the page's beginning.
  useEffect(() => {
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [pathname]);

  return (
    <>
      <a className="skip-link" href="#main">Skip to content</a>
      <header className="top">
        <div className="top-inner">
          <NavLink to="/jobs" className="brand" aria-label="Bellrock, job list"><Mark /> <span className="brand-name">Bellrock</span></NavLink>
          {viewer && !signIn && (
            <nav aria-label="Pages">
              <NavLink to="/jobs" className="nav-link">Jobs</NavLink>
              <NavLink to="/findings" className="nav-link">Findings</NavLink>
              {isAdmin && <NavLink to="/servers" className="nav-link">Servers</NavLink>}
              {isAdmin && (
                <NavLink to="/status" className="nav-link">
                  Status{losses > 0 && <span className="bad" title={`Records were lost on ${losses} node(s) in the last 24 hours`}> !</span>}
                </NavLink>
              )}
            </nav>
          )}
          <div className="top-end">
            {viewer && !signIn && <span className="muted version" data-testid="version">{viewer.version}</span>}
            {viewer?.via === "session" && !signIn && <SignOutButton name={viewer.name} />}
            <ThemeButton />
          </div>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} aria-busy={navigation.state !== "idle"}>
        {signIn && <SignInPage />}
        {!viewer && !error && <Loading what="the page" />}
        {!viewer && error && !signIn && <ErrorNote error={error} stale={false} />}
        {viewer && !signIn && <Outlet />}
      </main>
      <ScrollRestoration getKey={(location) => location.pathname} />
    </>
  );
}
