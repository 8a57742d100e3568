// producer HOST:PORT TOPIC: append each line of standard input, one after the other; tell where each is.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	ottla "ottla.example/grpc/ottla/v1"
)

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := ottla.NewLogClient(conn)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := client.Produce(context.Background(), &ottla.ProduceRequest{
			Topic: os.Args[2], Records: []*ottla.Record{{Value: []byte(lines.Text())}}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("record", answer.BaseOffset)
	}
}
