zl predict --model bing-bert-large --framework deepspeed
