weir -p 'What does the teacher play on Sundays?' --json --temp 0 parish.md | grep -oE '^.?"text":"[^"]*"|"heading"[^}]*"share":[0-9.]*'
