import { useEffect, useRef } from "react";
import { NavLink, Outlet, ScrollRestoration, useLocation, useNavigation } from "react-router";
import { useStatus } from "@/shared/api/status";
import { Mark } from "@/shared/ui/mark";
import { ThemeButton } from "./theme-button";

const STATUS_INTERVAL_MS = 10_000;

/** The frame of every page: mark, navigation, theme, version, and a sign when an agent lost records. */
export function Layout() {
  const { data: status } = useStatus(STATUS_INTERVAL_MS);
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
          <NavLink to="/jobs" className="brand" aria-label="Bellrock, job list"><Mark /> Bellrock</NavLink>
          <nav aria-label="Pages">
            <NavLink to="/jobs" className="nav-link">Jobs</NavLink>
            <NavLink to="/status" className="nav-link">
              Status{losses > 0 && <span className="bad" title={`Records were lost on ${losses} node(s) in the last 24 hours`}> !</span>}
            </NavLink>
          </nav>
          <div className="top-end">
            {status && <span className="muted version" data-testid="version">{status.version}</span>}
            <ThemeButton />
          </div>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} aria-busy={navigation.state !== "idle"}>
        <Outlet />
      </main>
      <ScrollRestoration getKey={(location) => location.pathname} />
    </>
  );
}
