// planes starts control planes with envtest, all at once, and prints their times as JSON.
//
// It writes one line once all are ready: the seconds until then. Then it waits for the end of its input, stops the control planes,
// and writes a second line: the seconds until all are stopped. The executables are those of $KUBEBUILDER_ASSETS.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// each calls a function for all environments at once, and returns the seconds until all have returned.
func each(environments []*envtest.Environment, call func(*envtest.Environment) error) float64 {
	var calls sync.WaitGroup
	started := time.Now()
	for _, environment := range environments {
		calls.Go(func() {
			if err := call(environment); err != nil {
				log.Fatal(err)
			}
		})
	}
	calls.Wait()
	return time.Since(started).Seconds()
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	environments := make([]*envtest.Environment, count)
	for number := range environments {
		environments[number] = &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	}
	out := json.NewEncoder(os.Stdout)
	ready := each(environments, func(e *envtest.Environment) error { _, err := e.Start(); return err })
	if err := out.Encode(map[string]float64{"ready": ready}); err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		log.Fatal(err)
	}
	stopped := each(environments, func(e *envtest.Environment) error { return e.Stop() })
	if err := out.Encode(map[string]float64{"stopped": stopped}); err != nil {
		log.Fatal(err)
	}
}
