package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"pawl/store"
)

func TestYY(t *testing.T) {
	s, err := Open(context.Background(), os.Getenv("ZZ"), Options{})
	must(t, err)
	defer s.Close()
	ctx := context.Background()
	for i := range 15 {
		start := time.Now()
		_, _, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: []string{"w@1"}, Max: 0, Hold: time.Minute})
		must(t, err)
		d := time.Since(start)
		start = time.Now()
		s.Now(ctx)
		fmt.Println(i, d, time.Since(start))
	}
}
