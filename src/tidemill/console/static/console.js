// Live refresh: htmx reloads the content every few seconds.  This file pauses it where it would disturb, and says so
// when the broker no longer answers.
"use strict";

(() => {
  const stale = () => document.getElementById("stale");

  // A tab in the background asks for nothing; one that becomes visible is refreshed at once.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const isRefresh = event.detail.elt.id === "live";
    const isSelecting = String(document.getSelection()) !== "";
    if (isRefresh && (document.hidden || isSelecting)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    const live = document.getElementById("live");
    if (!document.hidden && live.hasAttribute("hx-get")) htmx.trigger(live, "refresh");
  });

  let answeredAt = new Date();
  const failed = (why) => {
    const banner = stale();
    if (!banner.hidden) return;
    banner.textContent = `${why} This page shows what it said at ${answeredAt.toLocaleTimeString()}.`;
    banner.hidden = false;
  };
  document.addEventListener("htmx:sendError", () => failed("The broker does not answer."));
  document.addEventListener("htmx:timeout", () => failed("The broker does not answer."));
  document.addEventListener("htmx:responseError", (event) => failed(`The broker answers with status ${event.detail.xhr.status}.`));
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status !== 200) return;
    answeredAt = new Date();
    stale().hidden = true;
  });
})();
