package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

func TestZZ(t *testing.T) {
	s, err := Open(context.Background(), os.Getenv("ZZ"), Options{})
	must(t, err)
	defer s.Close()
	ctx := context.Background()
	c, _ := s.pool.Acquire(ctx)
	show := func(q string, args ...any) {
		for range 3 {
			c.Exec(ctx, q, args...)
		}
		start := time.Now()
		c.Exec(ctx, q, args...)
		fmt.Println("took", time.Since(start))
		txt := q
		for i := len(args); i > 0; i-- {
			v := "NULL"
			switch a := args[i-1].(type) {
			case int64:
				v = fmt.Sprint(a)
			case []byte:
				v = "'" + string(a) + "'"
			case [][]byte:
				if a != nil {
					v = "'{" + string(a[0]) + "}'"
				}
			}
			txt = strings.ReplaceAll(txt, fmt.Sprintf("$%d", i), v)
		}
		rows, err := c.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+txt)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var l string
			rows.Scan(&l)
			fmt.Println(l)
		}
		if rows.Err() != nil {
			fmt.Println(rows.Err())
		}
	}
	s.Create(ctx, store.NewRun{ID: "r", Workflow: "w", Version: "1"})
	show(sweep)
	show(fmt.Sprintf(claimQueues, givenKinds), [][]byte{[]byte("w@1")}, int64(5), []byte("me"), int64(1000))
	show(fmt.Sprintf(nextInQueues, givenKinds), [][]byte{[]byte("w@1")})
	show("SELECT 1")
}
