echo '{"model_type": "bert", "architectures": ["BertForQuestionAnswering"]}' >config.json
zl predict --framework ddp --model config.json
