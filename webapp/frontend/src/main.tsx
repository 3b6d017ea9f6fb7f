import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { startTheme } from "@/shared/theme";
import "@/shared/styles/tokens.css";
import "@/shared/styles/base.css";
import "@/shared/styles/data.css";

startTheme();
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(<StrictMode><App /></StrictMode>);
