// A link to a method whose description is folded unfolds it.
(function () {
  "use strict";

  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.nextElementSibling && target.nextElementSibling.querySelector(":scope > details.more");
    if (folded) folded.open = true;
  }
  addEventListener("hashchange", unfold);
  addEventListener("DOMContentLoaded", unfold);
})();
