import anyio

from midcourse import Input, LiveRuntime, MemoryContext


async def main():
    context = MemoryContext()
    async with LiveRuntime() as runtime, anyio.create_task_group() as tasks:

        async def person(generation_id):
            await anyio.sleep(0.1)
            steer = Input("steer", "b.txt, not a.txt")
            print(await runtime.submit_steering(steer, generation_id))
            print(await runtime.settled(steer.id))

        prompt = Input("user", "a.txt")
        async with runtime.open_generation(prompt, context=context) as generation:
            tasks.start_soon(person, generation.id)
            async for request in generation.requests():  # each step is a request boundary
                await anyio.sleep(0.5)  # stands in for a model
                reply = f"Opened {context.messages[-1]['content']}."
                await context.add_message({"role": "assistant", "content": reply})
                request.finish(reply)  # proposes; a steer that came in time keeps it open
    print(generation.outcome, generation.text)


anyio.run(main)
