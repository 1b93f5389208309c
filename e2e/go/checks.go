package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// check is one statement that must hold; the runner prints and counts it.
type check struct {
	sentence string
	run      func(ctx context.Context) error
}

// runAll runs the checks in order and reports whether all of them passed.
func runAll(checks []check) bool {
	passed := true
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := c.run(ctx)
		cancel()
		if err != nil {
			passed = false
			fmt.Printf("FAILED %s\n    %s\n", c.sentence, strings.ReplaceAll(err.Error(), "\n", "\n    "))
			continue
		}
		fmt.Printf("ok %s\n", c.sentence)
	}
	return passed
}

// equal returns an error unless both values print the same.
func equal(what string, actual, expected any) error {
	if a, e := fmt.Sprintf("%v", actual), fmt.Sprintf("%v", expected); a != e {
		return fmt.Errorf("%s: expected %s, got %s", what, e, a)
	}
	return nil
}

// eventually waits until the condition holds.
func eventually(ctx context.Context, what string, condition func() bool) error {
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("not in time: %s", what)
		}
	}
	return nil
}
