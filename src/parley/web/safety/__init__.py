"""Who may see and do what on the page: hosts and origins, people and their tokens, cookies, links for one question."""
