import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { startTheme } from "@/shared/theme";
import "@/shared/styles/tokens.css";
import "@/shared/styles/base.css";
import "@/shared/styles/frame.css";
import "@/shared/styles/panels.css";
import "@/shared/styles/controls.css";
import "@/shared/styles/tables.css";
import "@/shared/styles/tiles.css";
import "@/shared/styles/job.css";
import "@/shared/styles/servers.css";
import "@/shared/styles/charts.css";

startTheme();
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(<StrictMode><App /></StrictMode>);
